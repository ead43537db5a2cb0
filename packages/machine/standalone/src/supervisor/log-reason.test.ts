// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { reasonInLog } from "./log-reason.ts";

test.each([
  { name: "no log", log: undefined, want: "" },
  { name: "an empty log", log: "\n\n", want: "" },
  { name: "plain text", log: "one\ntwo\nthree\n", want: "three" },
  { name: "text after JSON", log: '{"reason":"early"}\npanic: nil\n', want: "panic: nil" },
  { name: "a reason", log: '{"message":"failed","reason":"no memory"}\n', want: "no memory" },
  { name: "an error", log: '{"msg":"failed","error":"no space"}', want: "no space" },
  { name: "a message", log: '{"msg":"short","message":"long"}', want: "long" },
  { name: "containerd's message", log: '{"level":"fatal","msg":"no socket"}', want: "no socket" },
  { name: "members that are not text", log: '{"reason":7,"error":"","msg":"m"}', want: "m" },
  { name: "none of them", log: '{"level":"fatal"}', want: "" },
])("the reason in a log with $name is $want", ({ log, want }) => {
  expect(reasonInLog(log)).toBe(want);
});
