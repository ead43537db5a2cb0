// SPDX-License-Identifier: Apache-2.0
// This version understands the messages of the last release, and sends messages that the last release understands.
import { parsePluginCall } from "@patchbay/cni";
import { parseDoctorPath, parseGuestRequest, parseGuestStream } from "@patchbay/core/guest";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseGreeting } from "../../packages/control-plane/virt-handler/src/relays/protocol.ts";
import { buildPluginAnswers, currentMessages, type Messages } from "./messages.ts";
import { lastVersion, readRecorded } from "./recorded.ts";

// The recorder wrote this type.
const recorded = parse(readRecorded(lastVersion(), "messages.yaml")) as Messages;
const current = currentMessages();

test("every name is still in use", () => {
  expect(recorded.names.length).toBeGreaterThan(50);
  expect(recorded.names.filter((name) => !current.names.includes(name))).toEqual([]);
});

test("relays of both versions understand each other", () => {
  expect(current.relay).toEqual(recorded.relay);
  const greetings = recorded.relay.greetings.map((line) => parseGreeting(line.trimEnd()));
  expect(greetings.map((greeting) => Object.keys(greeting ?? {}))).toEqual([
    ["migration", "channel"],
    ["migration", "channel"],
    ["migration", "channel"],
    ["migration", "isGuestGone"],
  ]);
});

test("virt-handler answers the requests of an older virt-api, and its own are known to an older one", () => {
  const { requests, ...certificates } = recorded.handler;
  expect(current.handler).toMatchObject(certificates);
  const unknown = requests.filter((line) => {
    const [, path = ""] = line.split(" ");
    const found = parseGuestRequest(path) ?? parseGuestStream(path) ?? parseDoctorPath(path);
    return found?.key.name !== "vm1";
  });
  expect(unknown).toEqual([]);
  expect(current.handler.requests).toEqual(expect.arrayContaining([...requests]));
});

test("net-agent understands an older patchbay-cni, and answers in the same form", () => {
  const { requestLine, body, call, answers } = recorded.plugin;
  expect(requestLine).toBe("POST /cni?answer=plugin HTTP/1.0");
  expect(parsePluginCall(JSON.parse(body) as unknown)).toMatchObject(call as object);
  expect(buildPluginAnswers()).toEqual(answers);
});
