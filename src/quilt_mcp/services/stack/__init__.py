"""Access to Quilt and AWS: logins, tokens, credentials, GraphQL, AWS clients, and their failures."""
