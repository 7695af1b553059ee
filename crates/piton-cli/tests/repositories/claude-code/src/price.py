def total(cents):
    return sum(cents)
