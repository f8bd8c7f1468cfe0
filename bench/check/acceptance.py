"""Recompute the acceptance counts of a full-model drafter with Transformers, and compare them with surmise's.

Greedy decoding makes a round a matter of two argmaxes: a proposal is accepted as far as the draft model's argmax equals
the target's token at each place, given the target's own stream before it. So one teacher-forced pass of the draft model
over every stream tells what each round accepts, for any width. A pass of the target checks the streams themselves.

    surmise record -m TARGET --out rec.jsonl --limit 20 --quantize none
    surmise bench -m TARGET --draft-model DRAFT --draft-block-size K --limit 20 --quantize none --draft-quantize none --out run.jsonl
    python acceptance.py TARGET DRAFT rec.jsonl run.jsonl
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM

NEAR = 1e-3  # a difference of logits below which float arithmetic decides


def scores(model, ids):
    """Logits after every token of ids [len(ids), vocabulary]."""
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def margin(z):
    """How far the greatest logit is above the second."""
    top = z.topk(2).values
    return (top[0] - top[1]).item()


def rounds(right, prompt, total, width, limit):
    """(drafts, proposed, accepted): right[p] tells that the draft's argmax after position p is the stream's next token."""
    drafts = proposed = accepted = 0
    drawn = 1  # the prompt's own round draws the first token
    while prompt + drawn < total:
        k = min(width, limit - drawn - 1)
        pending, a = prompt + drawn - 1, 0
        while a < k and pending + a < total - 1 and right[pending + a]:
            a += 1
        if k > 0:
            drafts, proposed, accepted = drafts + 1, proposed + k, accepted + a
        drawn += a + 1 if pending + a + 1 < total else a  # the stream may end with an accepted token
    return drafts, proposed, accepted


def main(target_dir, draft_dir, recording, journal):
    target, draft = (AutoModelForCausalLM.from_pretrained(d, dtype=torch.float32).eval() for d in (target_dir, draft_dir))
    items = {i["id"]: i for i in map(json.loads, list(open(recording))[1:]) if not i.get("skipped") and i["turn"] == 0}
    same = ties = wrong = 0
    for line in map(json.loads, list(open(journal))[1:]):
        for r in line.get("results", []):
            item, config, trial = items.get(line["item"]), r["config"], r["trial"]
            if config["kind"] != "full-model" or trial["turn"] or item is None:
                continue
            ids = item["prompt"] + item["tokens"]
            first, near = len(item["prompt"]) - 1, []
            said, surmised = scores(target, ids), scores(draft, ids)
            right = [surmised[p].argmax().item() == ids[p + 1] for p in range(len(ids) - 1)]
            for p in range(first, len(ids) - 1):
                if said[p].argmax().item() != ids[p + 1] or margin(surmised[p]) < NEAR:
                    near.append((p, round(margin(said[p]), 5), round(margin(surmised[p]), 5)))
            c = trial["counts"]
            want = rounds(right, len(item["prompt"]), len(ids), int(config["width"]), item["limit"])
            got = c["drafts"], c["draft_tokens"], c["accepted_tokens"]
            verdict = "same" if want == got else "near-tie" if near else "DIFFERENT"
            same, ties, wrong = same + (want == got), ties + (verdict == "near-tie"), wrong + (verdict == "DIFFERENT")
            print(f"{line['item']:16} k={config['width']:>2} surmise {got} transformers {want} {verdict}", *near)
    print(f"{same} the same, {ties} differ at near-ties, {wrong} different")
    return wrong > 0 or same + ties == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
