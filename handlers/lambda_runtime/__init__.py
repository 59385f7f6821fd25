"""What the functions share and only Lambda needs: events and responses of the runtime."""
