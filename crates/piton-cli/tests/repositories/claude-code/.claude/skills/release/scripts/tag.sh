echo tagged "$1"
