"""The grammar of NCCL's log: reader, lint, compiler to regular expressions, and lark as the reference engine."""
