"""How much generated input a test gets: little by default, much under `make fuzz`."""

from hypothesis import settings

# No deadlines: on a shared core a slow example says more about the neighbours than about the code.
settings.register_profile("short", max_examples=100, deadline=None, print_blob=True)
settings.register_profile("long", max_examples=10_000, deadline=None, print_blob=True)
settings.load_profile("short")
