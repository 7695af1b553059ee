import unittest

from split_the_bill import split, with_tip


class SplitTheBill(unittest.TestCase):
    def test_an_even_bill_is_split_evenly(self):
        self.assertEqual(split(900, 3), [300, 300, 300])

    def test_the_shares_add_up_to_the_bill(self):
        shares = split(1000, 3)
        self.assertEqual(sum(shares), 1000, f"shares: {shares}")

    def test_nobody_pays_more_than_one_cent_more_than_anybody_else(self):
        shares = split(1001, 4)
        self.assertLessEqual(max(shares) - min(shares), 1)

    def test_a_tip_is_rounded_up(self):
        self.assertEqual(with_tip(1001, 10), 1102)
