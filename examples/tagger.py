"""Train a part-of-speech tagger on an embeddings file, with a learned mix of its layers.

elmo embed train.conllu dev.conllu -o vectors/
python tagger.py
"""

import torch
from torch.utils.data import DataLoader

from elmo_cli import ElmoMix, EmbeddingsDataset


class Tagger(torch.nn.Module):
    """Scores of each tag for each token: equation (1) of the paper, then one linear layer."""

    def __init__(self, n_layers, dim, n_tags):
        super().__init__()
        self.mix = ElmoMix(n_layers)
        self.linear = torch.nn.Linear(dim, n_tags)

    def forward(self, layers, mask):
        return self.linear(self.mix(layers, mask))  # (batch, token, tag)


def read_tags(path):
    """The tag of each word, for each tree of a CoNLL-U file."""
    with open(path, encoding="utf-8") as file:
        trees = file.read().strip().split("\n\n")
    return [[row.split("\t")[3] for row in tree.split("\n") if row[0] != "#"] for tree in trees]


def accuracy(tagger, data):
    """The fraction of tokens that get their tag."""
    batch = data.collate([data[index] for index in range(len(data))])
    with torch.no_grad():
        predicted = tagger(batch.layers, batch.mask).argmax(-1)
    return (predicted == batch.labels)[batch.mask].float().mean().item()


def main():
    torch.manual_seed(1)
    train = EmbeddingsDataset("vectors/train.hdf5", read_tags("train.conllu"))
    names = train.label_names
    dev = EmbeddingsDataset("vectors/dev.hdf5", read_tags("dev.conllu"), label_names=names)
    tagger = Tagger(train.embeddings.n_layers, train.embeddings.dim, len(names))
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.01)
    loss_of = torch.nn.CrossEntropyLoss()  # which ignores -100, the label of padding
    for epoch in range(1, 11):
        for batch in DataLoader(train, batch_size=8, shuffle=True, collate_fn=train.collate):
            scores = tagger(batch.layers, batch.mask)
            loss = loss_of(scores.flatten(0, 1), batch.labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5 == 0:
            print(f"epoch {epoch}: {accuracy(tagger, dev):.1%} of the tokens of dev are right")


if __name__ == "__main__":
    main()
