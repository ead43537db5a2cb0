// SPDX-License-Identifier: Apache-2.0
// What agents, young and old, honest and not, tell of a default route.
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import {
  readGuestRoutes,
  parseFileNumber,
  parseGuestRoutes,
  parseRouteFile,
} from "./guest-agent.ts";

const HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
const [HAS, HAS_NONE] = [true, false].map((has) => ({ "routes.default.ipv4": String(has) }));

function buildReply(value: unknown): string {
  return JSON.stringify({ return: value });
}

function file(...lines: readonly string[]): string {
  const text = [HEAD, ...lines].map((line) => `${line}  \n`).join("");
  return buildReply({
    count: text.length,
    eof: true,
    "buf-b64": Buffer.from(text).toString("base64"),
  });
}

function row(destination: string, mask: string, flags: string): string {
  return `eth0\t${destination}\t0102000A\t${flags}\t0\t0\t0\t${mask}\t0\t0\t0`;
}

const [LOCAL, DEFAULT] = [row("0002000A", "00FFFFFF", "0001"), row("00000000", "00000000", "0003")];

describe("an agent that supports routes", () => {
  const local = { iface: "eth0", destination: "10.0.2.0", mask: "255.255.255.0", version: 4 };
  const route = { ...local, destination: "0.0.0.0", mask: "0.0.0.0", gateway: "10.0.2.1" };
  test.each([
    { name: "reports a default route", value: buildReply([local, route]), want: HAS },
    { name: "reports no default route", value: buildReply([local]), want: HAS_NONE },
    {
      name: "reports only an IPv6 default route",
      value: buildReply([{ ...route, version: 6 }]),
      want: HAS_NONE,
    },
    {
      name: "reports a route to the lower half of all addresses",
      value: buildReply([{ ...route, mask: "128.0.0.0" }]),
      want: HAS_NONE,
    },
    {
      name: "reports a route to the upper half of all addresses",
      value: buildReply([{ ...route, destination: "128.0.0.0" }]),
      want: HAS_NONE,
    },
    {
      name: "reports a default route beside invalid entries",
      value: buildReply([null, 7, route]),
      want: HAS,
    },
    { name: "reports no routes", value: buildReply([]), want: HAS_NONE },
    { name: "answers with something other than a list", value: buildReply({}), want: undefined },
    { name: "answers with invalid JSON", value: "[", want: undefined },
  ])("$name", ({ value, want }) => {
    expect(parseGuestRoutes(value)).toEqual(want);
  });
});

describe("the guest's route file", () => {
  test.each([
    { name: "has a default route", value: file(DEFAULT, LOCAL), want: HAS },
    { name: "has no default route", value: file(LOCAL), want: HAS_NONE },
    { name: "has no routes", value: file(), want: HAS_NONE },
    {
      name: "has an unreachable default route",
      value: file(row("00000000", "00000000", "0201")),
      want: HAS_NONE,
    },
    {
      name: "has a route to half of all addresses",
      value: file(row("00000000", "00000080", "0003")),
      want: HAS_NONE,
    },
    { name: "has other content", value: buildReply({ "buf-b64": "cm9vdDp4" }), want: {} },
    { name: "was not read", value: buildReply({ "buf-b64": 7 }), want: {} },
    { name: "has no answer", value: undefined, want: {} },
  ])("$name", ({ value, want }) => {
    expect(parseRouteFile(value)).toEqual(want);
  });

  test.each([
    { value: buildReply(1000), want: "1000" },
    { value: buildReply(0), want: "0" },
    { value: buildReply(-1), want: undefined },
    { value: buildReply(1e300), want: undefined },
    { value: buildReply("1,2"), want: undefined },
  ])("parses a number: $value", ({ value, want }) => {
    expect(parseFileNumber(value)).toBe(want);
  });
});

describe("queries of an agent", () => {
  const unknown = new AppError("LIBVIRT_UNSUPPORTED", { message: "not found" });
  const unavailable = new AppError("LIBVIRT_AGENT_UNAVAILABLE", { message: "gone" });
  const answers = {
    routes: unknown,
    openRoutes: buildReply(7),
    readFile: file(DEFAULT),
    closeFile: buildReply({}),
  };
  type Answers = Readonly<Record<string, unknown>>;

  function agent(changed: Answers) {
    const commands: string[] = [];
    const known: Answers = { ...answers, ...changed };
    const call = (question: string, number?: string): Promise<unknown> => {
      commands.push(number === undefined ? question : `${question} ${number}`);
      const answer = known[question];
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    };
    return { call, commands };
  }

  test("request its routes, and nothing else if it reports them", async () => {
    const { call, commands } = agent({ routes: buildReply([]) });
    expect(await readGuestRoutes(call)).toEqual(HAS_NONE);
    expect(commands).toEqual(["routes"]);
  });

  test("fall back to the guest's route file if routes are not supported, and close the file", async () => {
    const { call, commands } = agent({});
    expect(await readGuestRoutes(call)).toEqual(HAS);
    expect(commands).toEqual(["routes", "openRoutes", "readFile 7", "closeFile 7"]);
  });

  test("close the file also when it cannot be read", async () => {
    const { call, commands } = agent({ readFile: unavailable });
    await expect(readGuestRoutes(call)).rejects.toBe(unavailable);
    expect(commands.at(-1)).toBe("closeFile 7");
  });

  test("open no file when the agent is unavailable, and read none that was not opened", async () => {
    const silent = agent({ routes: unavailable });
    await expect(readGuestRoutes(silent.call)).rejects.toBe(unavailable);
    expect(silent.commands).toEqual(["routes"]);
    expect(await readGuestRoutes(agent({ openRoutes: buildReply("x") }).call)).toEqual({});
  });
});
