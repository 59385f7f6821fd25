"""What the functions share and only Lambda needs: start, invocations, HTTP events, the Web Adapter.

Modules here may import all of `derender`. It imports nothing from here.
"""
