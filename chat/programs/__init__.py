"""The API for programs: LM Studio's requests in our words, our answers in LM Studio's shape."""
