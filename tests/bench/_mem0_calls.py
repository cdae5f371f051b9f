"""Every call of mem0's own Python client against a service: runs where that client is installed, prints what came."""

import json
import sys

asked = json.load(sys.stdin)
from mem0 import MemoryClient  # noqa: E402

client = MemoryClient(api_key=asked["token"], host=asked["url"])
done = {}


def look(name, act, holds):
    try:
        done[name] = bool(holds(act()))
    except Exception as error:
        done[name] = f"{type(error).__name__}: {error}"


look("add", lambda: client.add("I live in Oslo.", user_id="kim"), lambda told: told["results"][0]["event"] == "ADD")
talk = [{"role": "user", "content": "I have a dog named Rex."}, {"role": "assistant", "content": "Noted."}]
look("add messages", lambda: client.add(talk, user_id="kim", metadata={"a": 1}), lambda told: told["results"])
whose = {"user_id": "kim"}
found = client.search("where does Kim live?", filters=whose, top_k=3)
look("search", lambda: found, lambda told: any("Oslo" in one["memory"] for one in told["results"]))
key = next(one["id"] for one in client.get_all(filters=whose)["results"] if "Oslo" in one["memory"])
look("get", lambda: client.get(key), lambda told: told["memory"] == "User lives in Oslo." and told["user_id"] == "kim")
look("get_all", lambda: client.get_all(filters=whose, page=1, page_size=1), lambda told: len(told["results"]) == 1)
look("update", lambda: client.update(key, text="User lives in Bergen."), lambda told: "Bergen" in told["memory"])
look("history", lambda: client.history(key), lambda told: [one["event"] for one in told] == ["ADD", "UPDATE"])
look("users", lambda: client.users(), lambda told: told["results"][0]["name"] == "kim")
look(
    "batch_update", lambda: client.batch_update([{"memory_id": key, "text": "User lives in Bonn."}]), lambda told: told
)
look("delete", lambda: client.delete(key), lambda told: told["message"])
look("delete_all", lambda: client.delete_all(user_id="kim"), lambda told: told["message"])
look("delete_users", lambda: client.delete_users(user_id="kim"), lambda told: told["message"])
print(json.dumps(done))
