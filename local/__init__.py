"""The laptop runtime: AWS emulator, AI server and deployment. Never deployed, never imported by the product."""
