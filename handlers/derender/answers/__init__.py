"""Complete generations: generate responses become OpenAI responses.

`choices` and `message` decode and parse them; `chat` and `completions` write them for one client API each.
Builds on `models`, `parsing`, `logprobs` and `decoding`; knows nothing of streams or HTTP.
"""
