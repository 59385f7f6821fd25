"""The decisive lines of chat templates whose licences forbid a copy."""

from typing import Final

__all__ = [
    "ALWAYS",
    "ASSISTANT",
    "DEEPSEEK_V3",
    "DEEPSEEK_V31",
    "DSML",
    "GLM",
    "HERMES",
    "HYBRID",
    "KIMI_K2",
    "LLAMA3",
    "LLAMA4",
    "MISTRAL",
    "PYTHONIC",
    "SWITCHED",
    "XML",
]

ASSISTANT: Final = "{% if add_generation_prompt %}<|im_start|>assistant\n"
HERMES: Final = (
    '<tool_call>\n{"name": "{{ call.name }}", "arguments": {{ call.arguments | tojson }}}\n</tool_call>'
)
XML: Final = "<tool_call>\n<function={{ call.name }}>\n<parameter={{ key }}>\n{{ value }}\n</parameter>"
HYBRID: Final = ASSISTANT + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
SWITCHED: Final = (
    ASSISTANT + "{% if not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}"
)
ALWAYS: Final = ASSISTANT + "<think>\n{% endif %}"
DEEPSEEK_V3: Final = (
    "{{ '<｜tool▁call▁begin｜>' + call.type + '<｜tool▁sep｜>' + call.name + '\n```json\n' + arguments }}"
)
DEEPSEEK_V31: Final = (
    "{{ '<｜tool▁call▁begin｜>' + call.name + '<｜tool▁sep｜>' + arguments }}<｜tool▁call▁end｜>"
)
DSML: Final = (
    "{% set dsml = '｜DSML｜' %}{{ '<' + dsml + 'CALLS>\n' }}"
    "{{ '<' + dsml + 'INVOKE name=\"' + call.name + '\">' }}{% if add_generation_prompt %}<think>{% endif %}"
)
KIMI_K2: Final = "<|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>{{ arguments }}<|tool_call_end|>"
GLM: Final = "{{ '<tool_call>' + call.name }}SPACE{% for k, v in call.arguments %}<arg_key>{{ k }}</arg_key>"
MISTRAL: Final = "{{ '[TOOL_CALLS]' + call.name + '[ARGS]' + arguments }}"
LLAMA3: Final = (
    "<|start_header_id|>assistant<|end_header_id|>\n\n{{ '{\"name\": \"' + call.name + '\", ' }}"
    '"parameters": {{ call.arguments }}'
)
LLAMA4: Final = "<|header_start|>assistant<|header_end|>\n\n"
PYTHONIC: Final = "[{% for call in message.tool_calls %}{{ call.name }}({{ key }}={{ value }}){% endfor %}]"
