"""`python -m fairmargin`: the command line."""

from fairmargin.cli import main

if __name__ == "__main__":
    main()
