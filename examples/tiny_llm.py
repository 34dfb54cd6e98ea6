"""A tiny causal model behind an OpenAI-compatible address, to try `road label` without a large one.

    python examples/tiny_llm.py --port 8000      # trains for some seconds, then serves
    road label http://localhost:8000/v1 films.csv --labels positive,negative ...

It has learnt to answer one prompt, `PROMPT`, about `tiny_teachers.sentences()`, and nothing else.
"""

import argparse
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI
from tiny_teachers import LABELS, sentences
from transformers import GPT2Config, GPT2LMHeadModel

from road_ray.data.tokenizer import train_wordpiece

PROMPT = "Is the sentence positive or negative? {text}"


def train() -> tuple[Any, Any]:
    """Return a GPT-2 that names the label after a sentence, and its tokenizer."""
    torch.manual_seed(0)
    rows = sentences()
    texts = [f"{PROMPT.format(text=row['text'])} {LABELS[row['labels']]}" for row in rows]
    tokenizer = train_wordpiece(texts, vocab_size=160)
    size = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.sep_token_id}
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **size, **ids)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(200):
        batch = tokenizer(texts[step % 8 :: 8], padding=True, return_tensors="pt")
        answer = batch["attention_mask"].sum(1, keepdim=True) - 2  # the last token before [SEP]
        labels = torch.full_like(batch["input_ids"], -100)
        labels.scatter_(1, answer, batch["input_ids"].gather(1, answer))
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), tokenizer


def application(model: Any, tokenizer: Any) -> FastAPI:
    """Return the two addresses that `road label` uses."""
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "tiny-llm", "object": "model"}]}

    @app.post("/v1/chat/completions")
    @torch.no_grad()
    def complete(request: dict[str, Any]) -> dict[str, Any]:
        ids = tokenizer(request["messages"][-1]["content"])["input_ids"][:-1][-32:]  # no [SEP]
        scores = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
        if request.get("temperature"):
            chosen = torch.multinomial(scores.exp(), request.get("n") or 1, replacement=True)
        else:
            chosen = scores.topk(1).indices
        best = scores.topk(min(request.get("top_logprobs") or 1, len(tokens)))
        top = [
            {"token": tokens[int(token)], "logprob": float(score)}
            for score, token in zip(*best, strict=True)
        ]
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": tokens[int(token)]},
                "logprobs": {"content": [{**top[0], "top_logprobs": top}]}
                if request.get("logprobs")
                else None,
                "finish_reason": "stop",
            }
            for index, token in enumerate(chosen)
        ]
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(choices)}
        return {"object": "chat.completion", "choices": choices, "usage": usage}

    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000)
    torch.set_num_threads(1)
    uvicorn.run(application(*train()), port=parser.parse_args().port, log_level="warning")
