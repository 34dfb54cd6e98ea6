"""Teachers that have another tokenizer than the student: they read texts, not the student's ids.

``row_texts.py`` has the texts of the student's rows, ``text_teacher.py`` the teacher that reads
them with its own tokenizer, ``text_reader.py`` its rows and the way back to the student's tokens,
``span_transfer.py`` the formulas for the start and end of answers.
"""
