"""What the user named becomes streams of bytes: paths, directories, globs, standard input, archives, compression."""
