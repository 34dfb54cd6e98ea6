"""``python -m tests.benchmarks.plain_server MODEL PORT``: the handler that most people write first.

The same predictor behind FastAPI and uvicorn, one row a request, without batching.
"""

import sys

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from road_ray.inference.load_model import load
from road_ray.inference.predictor import Prediction


class Text(BaseModel):
    text: str


def main() -> None:
    torch.set_num_threads(1)
    model, app = load(sys.argv[1]), FastAPI()

    @app.post("/predict")
    def predict(row: Text) -> Prediction:
        answer = model(text=row.text)
        assert isinstance(answer, dict)
        return answer

    @app.get("/ready")
    def ready() -> str:
        return "ready"

    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")


if __name__ == "__main__":
    main()
