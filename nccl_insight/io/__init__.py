"""Reading inputs: paths, directories, globs, standard input, gzip and zstandard, in bounded chunks."""
