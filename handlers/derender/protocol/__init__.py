"""Wire models: what generate servers send, what derender takes, what OpenAI clients read."""
