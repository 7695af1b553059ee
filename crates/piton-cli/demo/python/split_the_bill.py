"""Splits a bill among friends, to the cent."""


def split(total_cents, people):
    """What each of the people pays. Nobody pays more than one cent more than anybody else."""
    share = total_cents // people
    return [share for person in range(people)]


def with_tip(total_cents, percent):
    """The bill with a tip of so many percent, rounded up to the next cent."""
    return total_cents - (-total_cents * percent // 100)
