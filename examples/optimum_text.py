#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a Hugging Face text classifier with optimum and quantizes it to int8.

Needs optimum-onnx, transformers, torch, onnxruntime and qcalib. Nothing is downloaded: a small DistilBERT is trained here
on made-up reviews. Writes the folders text_model and text_onnx into the current folder.
"""
import random

import numpy as np
import onnxruntime
import torch
from optimum.exporters.onnx import main_export
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader
from transformers import DistilBertConfig, DistilBertForSequenceClassification, PreTrainedTokenizerFast

import qcalib

GOOD, BAD = "good great fine superb lovely".split(), "bad poor awful dull weak".split()
OTHER = "the film plot music was and cast story very but scene end actor so we saw it".split()
random.seed(0)
torch.manual_seed(0)


def make_review():
    """Returns (text, label): three opinions among other words; the label is that of the majority. One in 20 is wrong."""
    opinions = [random.choice((GOOD, BAD)) for _ in range(3)]
    text = [word for words in opinions for word in (*random.choices(OTHER, k=random.randint(1, 6)), random.choice(words))]
    return " ".join(text), int((opinions.count(GOOD) > 1) == (random.random() < 0.95))


vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *GOOD, *BAD, *OTHER])}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")


def collate(reviews):  # a batch, padded to its longest text
    texts, labels = zip(*reviews)
    tokens = tokenizer(list(texts), padding=True, return_tensors="pt", return_token_type_ids=False)
    return {**tokens, "labels": torch.tensor(labels)}


train_loader = DataLoader([make_review() for _ in range(3000)], batch_size=32, shuffle=True, collate_fn=collate)
test_loader = DataLoader([make_review() for _ in range(500)], batch_size=50, collate_fn=collate)

# Use your own model instead: everything below needs only its folder (or its name on the hub) and the loaders.
model = DistilBertForSequenceClassification(
    DistilBertConfig(vocab_size=len(vocabulary), dim=64, hidden_dim=128, n_layers=2, n_heads=4, max_position_embeddings=64))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
model.save_pretrained("text_model")
tokenizer.save_pretrained("text_model")

main_export("text_model", "text_onnx", task="text-classification")

# Batches may differ in length. Labels are ignored in calibration and used in eval.
result = qcalib.quantize("text_onnx/model.onnx", train_loader, samples=256, eval=test_loader,
                         out="text_onnx/model.int8.onnx")
print(result)


def accuracy(file):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    right = [session.run(None, {n: batch[n].numpy() for n in names})[0].argmax(axis=1) == batch["labels"].numpy()
             for batch in test_loader]
    return np.concatenate(right).mean()


for name in "text_onnx/model.onnx", "text_onnx/model.int8.onnx":
    print(f"{name}: {100 * accuracy(name):.2f} % in ONNX Runtime")
