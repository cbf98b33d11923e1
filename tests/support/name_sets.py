"""Sentences with and without a person's name in them, to measure a detector by. All made up."""

from typing import Final

# Orders of a procedure: nobody is named.
STEPS: Final = tuple(
    """
Unlock the account
Verify the customer's identity
Look up the reservation by its code
Check the fare rules before changing the flight
Cancel the booking and confirm the refund
Refund the fee to the original card
Escalate to a supervisor if the amount is above the limit
Reset the password and send a link
Ask for the order number
Open the ticket in the service desk
Close the ticket once the customer agrees
Collect the delivery address
Compare the invoice with the purchase order
Send the receipt by e-mail
Update the passenger list
Search direct flights for the new date
Offer the next available slot
Calculate the difference in price
Confirm all changes with the customer
Record the outcome in the notes
Transfer the call to billing
Restart the router and wait two minutes
Ping the gateway from the branch office
Rotate the access keys
Revoke the old certificate
Deploy the hot fix to staging
Run the regression suite
Roll back when the error rate rises
Inspect the logs of the failing pod
Export the report as a spreadsheet
Attach the signed form
Notify the warehouse of the return
Schedule a courier for pickup
Print the return label
Weigh the parcel
Scan both barcodes
Credit the loyalty points
Apply the voucher to the basket
Remove the hold on the shipment
Reissue the boarding pass
Request a wheelchair at the gate
Reserve two seats next to each other
Read the policy aloud
Wait for approval
Explain the cancellation terms
Summarise the options for the caller
Merge the duplicate profiles
Archive the case after thirty days
Enable two-factor login
Disable roaming on the line
Replace the damaged item
Validate the voucher code
Submit the claim to the insurer
Download the latest statement
Book the cheapest economy seat
Contact the carrier about the delay
Decline requests without proof of purchase
Identify which invoice is disputed
Split the payment over two cards
Review open tasks every morning
Assign the task to the night shift
Translate the letter into English
Withdraw the offer
Upgrade the cabin for gold members
Retry the payment once
Prepare the handover note
Investigate why the sync failed
List all flights on that day
Add one checked bag
Create a replacement order
""".strip().splitlines()
)

# Somebody's name begins the sentence; the name is what stands before the bar.
NAMED_STEPS: Final = tuple(
    """
Maria| calls the customer
maria| calls the customer back
Jordan| approves the refund
Jordan| and the caller agree on a date
Priya| checks the ledger twice
Tomasz| signs the form
Fatima| reviews the claim on Friday
Olivia| sends the receipt
Ahmed| unlocks the account
Wei| confirms the booking
Sofia| is asked before any refund
Carlos| has the keys
Ingrid| wants the refund on her card
Dmitri| writes the report
Aisha| opens a ticket
Liam| closes the case
Noah| said the gate had changed
Emma| will call at noon
Hannah| needs a wheelchair
Yusuf| paid for two seats
Elena| asked for the order number
Pedro| lost his boarding pass
Chloe| complained about the delay
Rajesh| must approve amounts above the limit
Mark| calls the warehouse
Mark| the parcel was not received by him
Grant| approves the voucher
Bill| pays the invoice
Rob| restarts the router
Sue| collects the parcel
Pat| escalates to the supervisor
Jack| runs the suite
Frank| verifies the address
Will| books the seats
Drew| updates the passenger list
Chase| confirms the price
Rose| weighs the parcel
Hope| prints the label
Josh| reads the policy
Wade| inspects the logs
Lance| submits the claim
Ward| archives the case
Pierce| exports the report
Carol| assigns the task
Dale| deploys the fix
Skip| translates the letter
Miles| adds one bag
Victor| reviews the statement
Grace| opens the door
Faith| transfers the call
Maria Lopez| calls the customer
Jordan Reyes| approves the refund
Mark Evans| prepares the note
Grant Okafor| checks the fare
Thandiwe Nkosi| wants an aisle seat
Bill Hartley| was charged twice
Hiroshi Tanaka| signs the waiver
Anneliese Vogt| asked for a receipt
Rob Castellano| is the contact
Sue Lindgren| has a gold card
Kwame Mensah| changed the flight
Pat Donnelly| cancels the order
Maria's| account is locked
Jordan's| refund is late
Priya's| card was declined
""".strip().splitlines()
)

# Codes of bookings, flights and airports: nobody is named. The code is what stands between the bars.
CODES: Final = tuple(
    """
The reservation |HXDUBJ| was cancelled
Cancel reservation |JMO1MG| please
Booking |H8Q05L| has two passengers
I fly on |HAT271| tomorrow
They leave from |JFK| at noon
Change |HAT045| to the next day
My confirmation code is |XEWRD9|
Look at |4WQ150| first
Reservation id |VAAOXJ| is in economy
The booking |NO6JO3| includes insurance
We found |MZDDS4| under that profile
|HAT120| is delayed by an hour
|JFK| to Seattle on Friday
Flight |HAT033| was full
Refund |SI5UKW| to the card
Add a bag to |KC18K6| now
|Q69X3R| was booked in May
The code |3RK2T9| belongs to him
Upgrade |FQ8APE| to business
Fly into |DFW| and out again
Layover in |PHX| for two hours
He lands at |LGW| late
Transfer at |CDG| is short
Arrive at |MSP| at nine
From |DTW| there is a bus
Depart |CLT| in the evening
Reservation |XKCDWR| has no bags
Locator |BQRTKL| is unknown
Order |W2378156| has shipped
Case |CS0014278| is open
Ticket |INC48213| was closed
Invoice |INV20931| is overdue
Model |XPS13| needs a new battery
Plan |M365E3| was renewed
Gate |B22| is closed
Seat |14C| is taken
Voucher |SAVE20X| expired
Item |SKU7731| is out of stock
The flight |UA1187| was cancelled
Train |ICE579| is late
Room |R4512| is ready
Booking |ZFA04Y| was changed twice
""".strip().splitlines()
)

# People in capitals. The name is what stands between the bars.
CAPITAL_NAMES: Final = tuple(
    """
|MARIA LOPEZ| called about the refund
The passenger is |MARIA LOPEZ| today
Refund to |JOHN SMITH| on Friday
Ask |SMITH| for the receipt
Passenger |SMITH| has two bags
Mr |JOHNSON| wants an aisle seat
Mrs |GARCIA| paid twice
|EMMA WILSON| lost her card
Seats for |DAVID BROWN| and his son
Signed by |ROBERT TAYLOR| in May
The account of |SARAH DAVIS| is locked
|JAMES ANDERSON| is a gold member
Card holder |LINDA MARTINEZ| agreed
Booked by |KEVIN LEE| yesterday
Dr |PATEL| asked for a wheelchair
|FATIMA KHAN| travels alone
Call |WILLIAM CLARK| at noon
Reservation for |MICHAEL THOMAS| was found
Letter from |NANCY LEWIS| arrived
|CARLOS RODRIGUEZ| changed the date
Ms |NGUYEN| has the keys
The driver |PAUL WALKER| signed
Agent |KAREN HALL| approved it
|GEORGE ALLEN| and his wife
Contact |ANNA YOUNG| first
Deliver it to |PETER KING| please
|SUSAN WRIGHT| complained
Passenger |LOPEZ| was moved
Ask for |MARTIN| at the desk
|WILSON| called twice
Reservation for |THOMAS| is confirmed
Message from |ANDERSON| today
Passenger |KIM| is late
Mr |LEE| has the tickets
Booking of |RODRIGUEZ| was changed
Invoice for |MARGARET ADAMS| is paid
|LAURA NELSON| needs help
Claim of |STEVEN BAKER| was closed
Meeting with |DIANA CARTER| on Monday
Hello, I am |JULIA ROBERTS| and I paid
Passenger |SCHMIDT| has no visa
Ask |KOWALSKI| to sign
""".strip().splitlines()
)
