"""The colours of a block: hue by micro-batch, light forward and dark backward, a deeper shade for each later chunk."""

from headway.schedule.action import Action, Kind

# Tailwind's 200 and 700 of seven hues: digits on all of them keep a contrast above 4.5. Seven, because 1F1B puts
# micro-batch m beside m + P, and P is mostly a power of two: with eight hues both would look the same.
_HUES = (
    ("bae6fd", "0369a1"),  # sky
    ("fde68a", "b45309"),  # amber
    ("a7f3d0", "047857"),  # emerald
    ("fecaca", "b91c1c"),  # red
    ("ddd6fe", "6d28d9"),  # violet
    ("d9f99d", "4d7c0f"),  # lime
    ("fbcfe8", "be185d"),  # pink
)
_INK, _PAPER, _STONE = "1c1917", "ffffff", "f5f5f4"
BUBBLE = "dim"
OTHER = f"#{_INK} on #a8a29e"
FAINT = "dim"
MEMORY = "#6d28d9"
WHOLE, REDUCED, STILL = "#0369a1", "#b45309", "#b91c1c"  # a throughput

_HEAT = ("fef9c3", "fdba74", "ef4444", "7f1d1d")

# states in cold colours, what a step holds in warm ones, what the device loses in grey; neighbours differ in lightness
_CATEGORIES = {
    "parameters": "1d4ed8",
    "gradients": "38bdf8",
    "optimizer": "0f766e",
    "activations": "f59e0b",
    "recomputed": "fde68a",
    "logits": "dc2626",
    "messages": "c084fc",
    "gathered": "6d28d9",
    "unreduced": "ec4899",
    "reductions": "9d174d",
    "allocator": "a8a29e",
    "context": "57534e",
}

# what a job's time is lost to: crashes in warm colours, what is paid against them in cold ones
_LOSSES = {
    "rework": "dc2626",
    "restart": "fbbf24",
    "checkpoints": "1d4ed8",
    "degraded": "38bdf8",
    "stalls": "57534e",
}


def loss(name: str) -> str:
    """The colour of a way to lose a job's time."""
    return f"#{_LOSSES[name]}"


def category(name: str) -> str:
    """The colour of a category of memory."""
    return f"#{_CATEGORIES.get(name, _STONE)}"


def heat(share: float) -> str:
    """The style of a link of which `share` is used, 0 to 1: from pale yellow by orange to dark red."""
    place = min(max(share, 0.0), 1.0) * (len(_HEAT) - 1)
    low = min(int(place), len(_HEAT) - 2)
    return f"#{_INK} on #{_mix(_HEAT[low], _HEAT[low + 1], place - low)}"


def plane(number: int, *, deep: bool = False) -> str:
    """Rich's style of a switch on a plane of a network: light, or deep for those higher up."""
    light, dark = _HUES[number % len(_HUES)]
    return f"bold #{_PAPER} on #{dark}" if deep else f"#{_INK} on #{light}"


def style(action: Action, chunk: int = 0, chunks: int = 1) -> str:
    """Rich's style of a block: `#ink on #background`."""
    depth = chunk / (chunks - 1) if chunks > 1 else 0.0
    light, dark = _HUES[(action.microbatch or 0) % len(_HUES)]
    match action.kind:
        case Kind.FORWARD:
            return f"#{_INK} on #{_mix(light, dark, 0.35 * depth)}"
        case Kind.BACKWARD:
            return f"bold #{_PAPER} on #{_mix(dark, '000000', 0.35 * depth)}"
        case Kind.INPUT_BACKWARD:  # as a full backward, underlined and a shade deeper
            return f"bold underline #{_PAPER} on #{_mix(dark, '000000', 0.15 + 0.35 * depth)}"
        case Kind.WEIGHT_BACKWARD:  # hollow: it holds nobody up
            return f"#{_mix(dark, '000000', 0.25)} on #{_mix(_STONE, dark, 0.2 * depth)}"
        case _:
            return OTHER


def _mix(one: str, other: str, share: float) -> str:
    """The colour `share` of the way from `one` to `other`, both `rrggbb`."""
    pairs = zip(bytes.fromhex(one), bytes.fromhex(other), strict=True)
    return bytes(round(a + (b - a) * share) for a, b in pairs).hex()
