"""The names of the files in a model folder."""

OPTIONS_FILE = "options.json"
WEIGHTS_FILE = "weights.hdf5"
SOFTMAX_FILE = "softmax.hdf5"
VOCABULARY_FILE = "vocab.txt"
STATE_FILE = "state.hdf5"
OPTIMIZER_FILE = "optimizer.hdf5"
RECIPE_FILE = "recipe.json"  # of `elmo pretrain`
RECORD_FILE = "finetune.json"  # of `elmo finetune`
HDF5_SUFFIXES = (".hdf5", ".h5")
