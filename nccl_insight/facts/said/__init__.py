"""What lines, programs and tools say, each looked up once: errors, endings, last words, topics, clocks."""
