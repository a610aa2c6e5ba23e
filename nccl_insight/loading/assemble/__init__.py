"""Messages of all inputs -> the tables of the contract."""
