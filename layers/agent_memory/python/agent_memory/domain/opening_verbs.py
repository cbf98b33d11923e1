"""Verbs that begin the steps of a procedure and are nobody's name: what is a first name or a common family name as well
("mark", "grant", "ping", "read", "page") is left out on purpose. None is among the first names of the United States'
census of 1990; those among its family names ("close", "block") are rare, and the word that follows has to suit a verb.
"""

from typing import Final

_WORDS: Final = (
    "abort accept access accompany acknowledge acquire act activate adapt add address adjust adopt advise agree alert "
    "align allocate allow alter amend analyse analyze announce annotate answer append apply approve archive arrange "
    "ask assemble assert assess assign assist assume attach attempt audit authenticate authorise authorize automate "
    "avoid await backup balance begin block book boot bring browse build bundle buy bypass calculate calibrate call "
    "cancel capture categorise categorize change charge check choose clarify classify clean clear click clone close "
    "collect combine commit communicate compare compile complete comply compose compress compute conclude conduct "
    "configure confirm connect consider consolidate consult contact continue convert coordinate copy correct count "
    "create credit customise customize deactivate debit debug decide decline decrease deduct deduplicate defer define "
    "delay delegate delete deliver demand deny depart deploy deposit describe designate detach detect determine "
    "diagnose dial disable discard discharge disclose disconnect discuss dismiss dispatch display distribute divide "
    "document double-check download draft drain drop duplicate edit eject email emphasise emphasize enable encourage "
    "encrypt end enforce engage enquire enrol enroll ensure enter erase escalate establish estimate evaluate examine "
    "exchange exclude execute exempt exit expand expedite expire explain explore export extend extract facilitate "
    "fetch file fill filter finalise finalize find finish fix flag flush follow force forecast format forward freeze "
    "fulfil fulfill gather generate get give group guarantee guide handle highlight hold identify ignore "
    "implement import impose improve include increase indicate inform initiate inquire insert inspect install instruct "
    "integrate interrupt introduce investigate invite invoice invoke isolate issue join keep kill launch leave "
    "let limit link list load locate lock log look lookup lower mail maintain make manage map match measure meet merge "
    "migrate minimise minimize modify monitor mount move mute negotiate normalise normalize note notify obtain offer "
    "omit open optimise optimize organise organize outline output override overwrite package parse patch pause pay "
    "perform permit phone pick pin place plan postpone prefer prepare present press prevent print prioritise "
    "prioritize proceed process produce prompt propose protect prove provide provision publish pull purchase purge "
    "push put query question queue quote raise re-book re-check re-run reactivate reassign reboot rebook rebuild "
    "recalculate recall receive recheck reclaim recommend reconcile reconfirm reconnect record recover redact redirect "
    "redo reduce refer refresh refund refuse regenerate register reinstall reinstate reissue reject release reload "
    "relocate remember remind remove rename renew reopen repair repeat replace reply report request require rerun "
    "reschedule research resend reserve reset resolve respond restart restore restrict resubmit resume retain retrieve "
    "retry return reuse reveal reverse revert review revise revoke roll rotate route run save scale scan schedule "
    "search secure select send separate set settle share ship shorten show sign simplify sort specify split start "
    "state stop store submit subscribe suggest summarise summarize supply suspend swap switch sync synchronise "
    "synchronize tag take tell terminate test tick toggle track transfer translate transmit treat trigger troubleshoot "
    "try turn type unblock uninstall unlink unlock unmount unpack unpin unplug unsubscribe update upgrade upload "
    "use validate verify view visit wait waive warn weigh wipe wire withdraw withhold wrap write zip"
)
VERBS: Final = frozenset(_WORDS.split())
