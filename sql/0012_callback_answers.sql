-- What receivers of callbacks answered, for people.

-- defines v_attempts 4befb3feb860
