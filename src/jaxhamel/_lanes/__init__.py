"""`lanes`, a JAX transform: it runs a function of one trajectory as scalar operations on batch vectors.

Forward and reverse mode are scalar operations on batch vectors, too.

The terms of this folder:

- *lane*: the place of one trajectory in the batch; a batch vector has one entry for each lane.
- *to write out*: to replace operations on arrays by scalar operations on their entries.
- *node*: one scalar of a program that is written out; a *graph* holds the nodes and the operations between them.
- *block*: an operation on arrays that is not written out, such as the factorisation of a large matrix.
- *turn*: one iteration of a loop.

No module here imports mechanics, so that every folder may use it.
"""
