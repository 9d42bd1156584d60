"""`python -m gateway` is the command `integrity-gateway`. Owns nothing else."""

from gateway.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
