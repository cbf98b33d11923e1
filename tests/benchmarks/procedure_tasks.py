"""Five kinds of task with the steps that their runs propose, in two wordings each, and how often those steps succeed."""

from typing import NamedTuple


class Kind(NamedTuple):
    """*rate*: share of the runs that follow the steps and succeed, in tenths, so that it is known exactly."""

    task_type: str
    task: str
    title: str
    wordings: tuple[tuple[str, ...], tuple[str, ...]]
    tenths: int


KINDS = (
    Kind(
        "drain-node",
        "Drain node n-{} before its upgrade.",
        "Drain a node",
        (
            ("Cordon the node.", "Evict its pods.", "Check that no pod is left."),
            ("First, cordon the node.", "Then evict its pods.", "Finally, verify that no pod is left."),
        ),
        10,
    ),
    Kind(
        "refund",
        "Refund the duplicate charge of order {}.",
        "Refund a duplicate charge",
        (
            ("Find the order by its number.", "Check that the charge appears twice.", "Refund the second charge."),
            ("Look the order up by its number.", "Verify that the charge appears twice.", "Refund the second charge."),
        ),
        9,
    ),
    Kind(
        "rotate-key",
        "Rotate the API key of service s-{}.",
        "Rotate an API key",
        (
            ("Create a new key in the vault.", "Deploy the service with the new key.", "Revoke the old key."),
            (
                "Create a new key in the vault.",
                "Roll out the service with the new key.",
                "Finally, revoke the old key.",
            ),
        ),
        8,
    ),
    Kind(
        "reset-account",
        "Reset the locked account of caller {}.",
        "Reset a locked account",
        (
            ("Verify the caller with two questions.", "Remove the lock from the account.", "Send a reset link."),
            ("Check the caller with two questions.", "Then remove the lock from the account.", "Send a reset link."),
        ),
        7,
    ),
    Kind(
        "move-booking",
        "Move booking b-{} to another day.",
        "Move a booking",
        (
            ("Find the booking.", "Check the seats on the new day.", "Change the date."),
            ("Look up the booking.", "Check the seats on the new day.", "Change the date."),
        ),
        3,
    ),
)
