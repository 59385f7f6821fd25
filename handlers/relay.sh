#!/bin/sh
# The relay's handler. Lambda's own Python runtime cannot stream, so the Lambda Web Adapter runs this in its place, and
# passes requests on to the server that it starts.
exec python "$(dirname "$0")/relay.py"
