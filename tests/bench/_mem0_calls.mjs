// Every call of mem0's own TypeScript client against a service; prints what came.
import { MemoryClient } from "mem0ai";
const [url, token] = process.argv.slice(2);
const client = new MemoryClient({ apiKey: token, host: url });
const done = {};
async function look(name, act, holds) {
  try {
    const told = await act();
    done[name] = Boolean(holds(told));
    return told;
  } catch (error) {
    done[name] = String(error);
  }
}
const talk = [{ role: "user", content: "I live in Oslo." }];
const whose = { filters: { user_id: "lea" } };
await look("add", () => client.add(talk, { userId: "lea" }), (told) => told.results[0].event === "ADD");
await look("search", () => client.search("where does Lea live?", { ...whose, topK: 3 }), (told) => told.results.length);
const all = await look("getAll", () => client.getAll(whose), (told) => told.count === 1);
const key = all.results[0].id;
await look("get", () => client.get(key), (told) => told.memory === "User lives in Oslo.");
await look("update", () => client.update(key, { text: "User lives in Bonn." }), (told) => told.memory.includes("Bonn"));
await look("history", () => client.history(key), (told) => told.map((one) => one.event).join() === "ADD,UPDATE");
await look("users", () => client.users(), (told) => told.results.some((one) => one.name === "lea"));
await look("batchUpdate", () => client.batchUpdate([{ memoryId: key, text: "User lives in Rome." }]), (told) => told);
await look("delete", () => client.delete(key), (told) => told.message);
await look("deleteAll", () => client.deleteAll({ userId: "lea" }), (told) => told.message);
await look("deleteUsers", () => client.deleteUsers({ userId: "lea" }), (told) => told.message);
console.log(JSON.stringify(done));
