// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parsePorts } from "./serve-ports.ts";

test.each([
  { texts: ["22"], want: [{ local: 22, remote: 22 }] },
  {
    texts: ["2222:22", "tcp/80:8080"],
    want: [
      { local: 2222, remote: 22 },
      { local: 80, remote: 8080 },
    ],
  },
  { texts: ["0:22"], want: [{ local: 0, remote: 22 }] },
])("$texts are $want", ({ texts, want }) => {
  expect(parsePorts(texts, false)).toEqual(want);
});

test("names each invalid pair of ports", () => {
  const texts = ["22", "0", "a:22", "22:65536", "udp/53", "1:2:3"];
  expect(() => parsePorts(texts, false)).toThrow("0, a:22, 22:65536, udp/53, 1:2:3: a port is");
});

test("--stdio requires exactly one port", () => {
  expect(parsePorts(["22"], true)).toEqual([{ local: 22, remote: 22 }]);
  expect(() => parsePorts(["22", "23"], true)).toThrow("it takes one port");
});
