"""The front door: the gateway as an authorization server for hosts that speak only OAuth.

- `server`: its endpoints, except what people see
- `tokens`: what codes and refresh tokens give
- `requests`: who asks for authorization, and for what
- `desk`: consent by a person at their desk
- `pages`: what people see
"""
