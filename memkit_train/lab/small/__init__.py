"""How the shipped small manager is made: labelled scenes in `corpus`, statements about made-up things, one command."""
