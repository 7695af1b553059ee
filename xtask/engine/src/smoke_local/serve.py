"""serve.py MODEL.gguf TEMPLATE PORT WINDOW: llama.cpp's own server (PyPI `xllamacpp`) on 127.0.0.1, until stdin ends.

One slot, one thread (two spin against each other on a small machine), no randomness, and no reply without an end.
"""
import sys
import xllamacpp

model, template, port, window = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = model
params.chat_template = open(template).read()
params.use_jinja = True
params.hostnames = ["127.0.0.1"]
params.port = int(port)
params.n_ctx = int(window)
params.n_parallel = 1
params.n_predict = 600
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.sampling.temp = 0.0
server = xllamacpp.Server(params)
print("listening", server.listening_address, flush=True)
# Whoever started this holds the other end, and may be killed at any time.
sys.stdin.read()
