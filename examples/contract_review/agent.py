"""The agent: LangChain's create_agent over two tools, and one line that gives it memory."""

from typing import Any

from agent_memory.langgraph import AgentMemory, MemoryMiddleware
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import BaseModel, ConfigDict

from examples.contract_review.contracts import list_sections, read_section

WHERE = "Where it stands"
PROMPT = f"""\
You review contracts for a port. Read with the tools; read no more sections than you need. Answer each question with the
words of the contract, then say under "{WHERE}" in which section each answer was: liability cap: section .., notice:
section .., governing law: section .."""
TASK = (
    "Review the contract {contract}: what caps the liability of the parties, how long is the notice to terminate "
    "without cause, and which law governs it?"
)


class Review(BaseModel):
    """What one run answered, and what it cost."""

    model_config = ConfigDict(frozen=True)

    contract: str
    answer: str
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int


def review(contract: str, model: BaseChatModel, memory: AgentMemory) -> Review:
    """Run the agent once over a contract. Memory is read when the run begins and told of it when it ends."""
    remembers = MemoryMiddleware(memory, task_type="contract-review", domain="contracts", outcome=outcome_of)
    agent = create_agent(model, [list_sections, read_section], system_prompt=PROMPT, middleware=[remembers])
    state = agent.invoke({"messages": [HumanMessage(TASK.format(contract=contract))]})
    return _counted(contract, state["messages"])


def outcome_of(state: Any, _: Any) -> str:
    """A review that says where its answers stand is complete; the agent itself is not asked."""
    return "COMPLETED" if WHERE.lower() in str(state["messages"][-1].text).lower() else "PARTIAL"


def _counted(contract: str, messages: list[BaseMessage]) -> Review:
    said = [message for message in messages if isinstance(message, AIMessage)]
    usage = [message.usage_metadata for message in said if message.usage_metadata]
    return Review(
        contract=contract,
        answer=str(said[-1].text),
        model_calls=len(said),
        tool_calls=sum(len(message.tool_calls) for message in said),
        input_tokens=sum(one["input_tokens"] for one in usage),
        output_tokens=sum(one["output_tokens"] for one in usage) or count_tokens_approximately(said),
    )
