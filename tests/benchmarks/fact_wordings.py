"""Ten facts of a yard, each in five wordings, written for the bench."""

FACTS: tuple[tuple[str, ...], ...] = (
    (
        "Forklift batteries are charged in bay 12.",
        "The forklift batteries are charged in bay 12.",
        "In bay 12, forklift batteries are charged.",
        "Forklift batteries get charged in bay 12.",
        "Batteries of forklifts are charged in bay 12.",
    ),
    (
        "Returned parcels need a photo before the refund.",
        "Before the refund, returned parcels need a photo.",
        "Returned parcels need a photo before a refund.",
        "A returned parcel needs a photo before the refund.",
        "Parcels that are returned need a photo before the refund.",
    ),
    (
        "Pallets over 900 kg are weighed twice.",
        "Pallets above 900 kg are weighed twice.",
        "Pallets heavier than 900 kg are weighed twice.",
        "Pallets of more than 900 kg are weighed twice.",
        "A pallet over 900 kg is weighed twice.",
    ),
    (
        "The cold room is kept at 4 degrees.",
        "The cold room stays at 4 degrees.",
        "The temperature of the cold room is kept at 4 degrees.",
        "The cold room is held at 4 degrees.",
        "The cold room must be kept at 4 degrees.",
    ),
    (
        "Customs papers are stored for 10 years.",
        "Customs papers are kept for 10 years.",
        "The customs papers are stored for 10 years.",
        "Customs documents are stored for 10 years.",
        "For 10 years, customs papers are stored.",
    ),
    (
        "Drivers report at the blue office.",
        "The drivers report at the blue office.",
        "Drivers report to the blue office.",
        "At the blue office, drivers report.",
        "Every driver reports at the blue office.",
    ),
    (
        "Damaged crates are marked with red tape.",
        "Crates that are damaged are marked with red tape.",
        "Red tape marks damaged crates.",
        "Damaged crates get marked with red tape.",
        "A damaged crate is marked with red tape.",
    ),
    (
        "The label printer is refilled by the night shift.",
        "The night shift refills the label printer.",
        "The label printer gets refilled by the night shift.",
        "Label printers are refilled by the night shift.",
        "By the night shift, the label printer is refilled.",
    ),
    (
        "Invoices above 5000 euros need two signatures.",
        "Invoices over 5000 euros need two signatures.",
        "Two signatures are needed for invoices above 5000 euros.",
        "An invoice above 5000 euros needs two signatures.",
        "Invoices of more than 5000 euros need two signatures.",
    ),
    (
        "Hazardous goods are unloaded at ramp 7.",
        "At ramp 7, hazardous goods are unloaded.",
        "Hazardous goods get unloaded at ramp 7.",
        "Goods that are hazardous are unloaded at ramp 7.",
        "The hazardous goods are unloaded at ramp 7.",
    ),
)
