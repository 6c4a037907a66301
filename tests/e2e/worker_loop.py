# SPDX-License-Identifier: Apache-2.0
"""The loop of a worker that a test asks through pickles. It imports nothing that a runtime's own Python may lack."""

import pickle


def serve(answer, requests, replies):
    """Replies to each pickled tuple with answer(*tuple), or with the text of its error: the caller decides what it means."""
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            reply = answer(*request)
        except Exception as error:
            reply = str(error) or type(error).__name__
        pickle.dump(reply, replies)
        replies.flush()
