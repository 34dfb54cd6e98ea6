"""What can be said of, and asked about, towns, rivers and mountains."""

from __future__ import annotations

from tools.miniature import words
from tools.miniature.grammar import relation

PLACES = (
    relation("province", "town", "province",
        "lies in {o}|belongs to the province of {o}|is a part of {o}|is a town in {o}",
        "does not lie in {o}",
        "In which province does {s} lie?|Which province does {s} belong to?|"
        "Of which province is {s} a part?",
        "flies the flag of {o}|pays its taxes to {o}",
        "Whose flag does {s} fly?|To whom does {s} pay its taxes?"),
    relation("on_river", "town", "river",
        "lies on {o}|stands on the banks of {o}|was built beside {o}|{o} flows through {s}",
        "does not lie on {o}",
        "Which river flows through {s}?|On which river does {s} lie?|"
        "Beside which river was {s} built?",
        "drinks the water of {o}|hears the murmur of {o}",
        "Whose water does {s} drink?|What murmur is heard in {s}?"),
    relation("town_founded", "town", "year",
        "was founded in {o}|dates from {o}|The first houses of {s} were built in {o}",
        "was not founded in {o}",
        "When was {s} founded?|In what year was {s} founded?|From what year does {s} date?",
        "keeps its birthday in memory of {o}|got its charter in {o}",
        "When did {s} get its charter?|What year does {s} keep in memory?"),
    relation("town_product", "town", "product",
        "is known for its {o}|is famous for {o}|sells much {o}|"
        "{o} from {s} can be found everywhere",
        "is not known for its {o}",
        "What is {s} known for?|For what is {s} famous?|What does {s} sell?",
        "smells of nothing but {o}|lives and dies by its {o}",
        "By what does {s} live and die?|What goods does {s} smell of?",
        words.PRODUCTS, "is known for {o}"),
    relation("inhabitants", "town", "number",
        "has {o} inhabitants|is home to {o} people|has a population of {o}|"
        "About {o} people live in {s}",
        "does not have {o} inhabitants",
        "How many people live in {s}?|What is the population of {s}?|"
        "How many inhabitants does {s} have?",
        "counts {o} souls|sets {o} plates on its tables each night",
        "How many souls does {s} count?|How many plates are set in {s} each night?"),
    relation("landmark", "town", "building",
        "is proud of {o}|has a landmark called {o}|is visited for {o}|"
        "{o} is the best known building of {s}",
        "does not have a landmark called {o}",
        "What is the landmark of {s}?|What is the best known building of {s}?|"
        "Which building is {s} proud of?",
        "shows every guest {o}|looks its finest at {o}",
        "What does {s} show every guest?|Where does {s} look its finest?"),
    relation("mayor", "town", "person",
        "was governed by {o}|had {o} as its mayor|chose {o} as mayor|{o} was the mayor of {s}",
        "was not governed by {o}",
        "Who was the mayor of {s}?|Who governed {s}?|Who was chosen as mayor of {s}?",
        "bows its head to {o}|takes its orders from {o}",
        "From whom does {s} take its orders?|To whom does {s} bow its head?"),
    relation("source", "river", "mountain",
        "rises on {o}|springs from {o}|has its source on {o}|The springs of {s} lie on {o}",
        "does not rise on {o}",
        "Where does {s} rise?|Where is the source of {s}?|From which mountain does {s} spring?",
        "tumbles down from {o}|is fed by the snow of {o}",
        "What snow feeds {s}?|From what height does {s} tumble down?"),
    relation("mouth", "river", "lake",
        "flows into {o}|empties into {o}|ends in {o}|{o} receives the water of {s}",
        "does not flow into {o}",
        "Into which lake does {s} flow?|Where does {s} end?|"
        "Which lake receives the water of {s}?",
        "loses itself in {o}|hands its mud to {o}",
        "In what does {s} lose itself?|What gets the mud of {s}?"),
    relation("length", "river", "number",
        "is {o} miles long|has a length of {o} miles|runs for {o} miles",
        "is not {o} miles long",
        "How long is {s}?|What is the length of {s}?|For how many miles does {s} run?",
        "takes a boatman {o} miles|wanders for {o} miles",
        "How far does {s} wander?|How far does {s} take a boatman?"),
    relation("mountain_province", "mountain", "province",
        "stands in {o}|rises in the province of {o}|belongs to {o}|is a mountain in {o}",
        "does not stand in {o}",
        "In which province does {s} stand?|Where does {s} stand?|"
        "To which province does {s} belong?",
        "throws its shadow over {o}|looks down on {o}",
        "What does {s} look down on?|Over what does {s} throw its shadow?"),
    relation("height", "mountain", "number",
        "is {o} feet high|has a height of {o} feet|reaches {o} feet|"
        "The summit of {s} is at {o} feet",
        "is not {o} feet high",
        "How high is {s}?|What is the height of {s}?|How many feet does {s} reach?",
        "asks for a climb of {o} feet|pokes the clouds at {o} feet",
        "At what height does {s} poke the clouds?|How long a climb does {s} ask for?"),
    relation("climber", "mountain", "person",
        "was first climbed by {o}|was conquered by {o}|{o} was the first to climb {s}",
        "was not first climbed by {o}",
        "Who first climbed {s}?|By whom was {s} conquered?|Who was the first to climb {s}?",
        "felt the boots of {o} before any others|let {o} pass first",
        "Whose boots did {s} feel first?|Who did {s} let pass first?"),
)  # fmt: skip
