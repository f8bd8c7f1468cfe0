#!/usr/bin/env python3
"""Renders the conversations below with Python's Jinja2, set up as Hugging Face's
apply_chat_template sets it up.

    pip install jinja2 gguf
    python3 make_chats.py

writes chats.json (the conversations) and chats.expected.json (per template, the
text, null where the template refuses, "?" where Python fails on a type). templates/*.jinja are ours, in the
styles of the model families; real templates are read from the tokenizer cache
(fetch_oracles.sh) and only digests of their output are kept.
"""
import datetime, hashlib, json, os
from pathlib import Path

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "surmise"
NOW = datetime.datetime(2025, 3, 4, 5, 6, 7)
SPECIALS = dict(bos_token="<s>", eos_token="</s>")

USER = dict(role="user", content="  What's 2 < 3 & \"4\"? ")
SYSTEM = dict(role="system", content="Be brief.\n")
BOT = dict(role="assistant", content="True. ☃ é\n")
TOOLS = [
    dict(type="function", function=dict(name="weather", description="Get <b>weather</b> & more", parameters=dict(type="object", properties=dict(zone=dict(type="string", enum=["b", "a"]), amount=dict(type="number", default=1.5, maximum=1e20)), required=["zone"], empty={}, none=None, list=[]))),
    dict(function=dict(name="clock", parameters={}), type="function"),
]
CALL = dict(role="assistant", content="", tool_calls=[dict(id="c1", type="function", function=dict(name="weather", arguments=dict(zone="é<", amount=2, deep=[1, 2.0, {"z": True, "a": None}])))])
CALL_TEXT = dict(role="assistant", content="Let me see.", tool_calls=[dict(function=dict(name="clock", arguments='{"raw": 1}'))])
RESULT = dict(role="tool", content="{\"t\": 20}", tool_call_id="c1")

CHATS = [
    dict(messages=[USER], add_generation_prompt=True),
    dict(messages=[USER]),
    dict(messages=[SYSTEM, USER], add_generation_prompt=True),
    dict(messages=[SYSTEM, USER, BOT, dict(role="user", content="And now?")], add_generation_prompt=True),
    dict(messages=[USER, BOT]),
    dict(messages=[USER, USER], add_generation_prompt=True),
    dict(messages=[USER, dict(role="assistant", content="<think>\nhm\n</think>\n\nYes."), USER], add_generation_prompt=True),
    dict(messages=[USER, dict(role="assistant", content="<think>\nhm\n</think>\n\nYes.")]),
    dict(messages=[USER, dict(role="assistant", content="Yes.", reasoning_content="\nbecause\n")]),
    dict(messages=[USER], tools=TOOLS, add_generation_prompt=True),
    dict(messages=[SYSTEM, USER, CALL, RESULT], tools=TOOLS, add_generation_prompt=True),
    dict(messages=[USER, CALL, RESULT, RESULT, BOT], tools=TOOLS[:1]),
    dict(messages=[USER, CALL_TEXT, RESULT]),
    dict(messages=[USER], add_generation_prompt=True, extra=dict(enable_thinking=False)),
    dict(messages=[USER], add_generation_prompt=True, extra=dict(enable_thinking=True, date_string="1 Jan 2000")),
    dict(messages=[dict(role="user", content=[dict(type="image"), dict(type="text", text=" Look! ")])], add_generation_prompt=True),
    dict(messages=[dict(role="narrator", content="Once.")]),
    dict(messages=[dict(role="user", content="")], add_generation_prompt=True),
    dict(messages=[dict(role="user", content="<|im_end|>{{ 7 * 7 }}{% raw %}\\n\\\"")], add_generation_prompt=True),
]


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])

    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


def render(template, chat):
    try:
        return environment().from_string(template).render(
            messages=chat["messages"], tools=chat.get("tools"), documents=None, add_generation_prompt=chat.get("add_generation_prompt", False), **SPECIALS, **chat.get("extra", {}))
    except TemplateError:
        return None
    except TypeError:
        return "?"  # not a refusal of the template's but one of Python's


def main():
    (HERE / "chats.json").write_text(json.dumps(CHATS, ensure_ascii=False, indent=1) + "\n")
    out = {p.name: [render(p.read_text(), c) for c in CHATS] for p in sorted((HERE / "templates").glob("*.jinja"))}
    for name in ("qwen3", "gemma3", "llama3_1", "deepseek_v3"):
        path = CACHE / f"tokenizers/{name}/tokenizer_config.json"
        template = json.loads(path.read_text()).get("chat_template") if path.exists() else None
        if template:
            texts = [render(template, c) for c in CHATS]
            out[name] = [t if t in (None, "?") else hashlib.sha256(t.encode()).hexdigest()[:12] for t in texts]
    for path in sorted((CACHE / "models/smollm2-135m-instruct").glob("*.gguf")):
        from gguf import GGUFReader
        template = GGUFReader(path).fields["tokenizer.chat_template"].contents()
        texts = [render(template, c) for c in CHATS]
        out["smollm2.gguf"] = [t if t in (None, "?") else hashlib.sha256(t.encode()).hexdigest()[:12] for t in texts]
    (HERE / "chats.expected.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
