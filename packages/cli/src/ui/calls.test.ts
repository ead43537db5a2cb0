// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { toForwardedCall, toForwardedStream } from "./calls.ts";
import { findOriginProblem, type RequestOrigin, LinkTokens } from "./access.ts";
import { findOfferedKey } from "./streams.ts";

const VM = "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines";
const VMI = "/apis/kubevirt.io/v1/namespaces/ns/virtualmachineinstances/a";
const SUB = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachines/a";
const SUB_VMI = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/a";

describe("toForwardedCall", () => {
  test.each([
    { method: "GET", target: `${VM}/a` },
    { method: "PATCH", target: `${VM}/a?dryRun=All` },
    { method: "PATCH", target: VMI },
    { method: "POST", target: VM },
    { method: "POST", target: "/api/v1/namespaces/ns/secrets?dryRun=All" },
    { method: "PUT", target: `${SUB}/addinterface` },
    { method: "GET", target: `${SUB_VMI}/interfacetraffic` },
    { method: "PUT", target: `${SUB}/stop?dryRun=All` },
    { method: "PUT", target: `${SUB_VMI}/pause?dryRun=All` },
    { method: "PUT", target: `${SUB_VMI}/softreboot?dryRun=All` },
    { method: "POST", target: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews" },
  ])("forwards $method $target", ({ method, target }) => {
    const [path, query] = target.split("?");
    expect(toForwardedCall(method, target)).toEqual({
      method,
      path,
      query: query === undefined ? {} : { dryRun: "All" },
    });
  });

  test("forwards the interface of a doctor request", () => {
    expect(toForwardedCall("GET", `${SUB_VMI}/doctor?interface=blue`)).toEqual({
      method: "GET",
      path: `${SUB_VMI}/doctor`,
      query: { interface: "blue" },
    });
  });

  test.each([
    { method: "GET", target: "/api/v1/namespaces/ns/secrets" },
    { method: "PATCH", target: `${VM}/a/status` },
    { method: "PATCH", target: `${VMI}/status` },
    { method: "PATCH", target: `${VM}/..` },
    { method: "PUT", target: `${SUB}/portforward` },
    { method: "DELETE", target: VM },
    { method: "DELETE", target: "/api/v1/namespaces/ns/secrets/a" },
    { method: "TRACE", target: `${VM}/a` },
    { method: "constructor", target: `${VM}/a` },
    { method: "PATCH", target: `${VM}/a?fieldManager=x` },
    { method: "PATCH", target: `${VM}/a%2fstatus` },
    { method: "GET", target: `${VM}/${"a".repeat(300)}` },
  ])("rejects $method $target", ({ method, target }) => {
    expect(toForwardedCall(method, target)).toBeUndefined();
  });

  test.each([
    { target: "/streams/ns/a/console", want: { namespace: "ns", name: "a", what: "console" } },
    { target: "/streams/ns/a/vnc", want: { namespace: "ns", name: "a", what: "vnc" } },
    { target: "/streams/ns/a/portforward", want: undefined },
    { target: "/streams/ns/../vnc", want: undefined },
    { target: "/streams/ns/a/vnc?x", want: undefined },
  ])("parses the stream $target", ({ target, want }) => {
    expect(toForwardedStream(target)).toEqual(want);
  });
});

describe("findOriginProblem", () => {
  const own: RequestOrigin = {
    method: "POST",
    host: "127.0.0.1:80",
    origin: "http://127.0.0.1:80",
    site: "same-origin",
  };
  test.each<{ name: string; knock: Partial<RequestOrigin>; isStream?: boolean; want: boolean }>([
    { name: "accepts the panel's page", knock: {}, want: true },
    {
      name: "accepts the panel's page at localhost",
      knock: { host: "localhost:80", origin: "http://localhost:80" },
      want: true,
    },
    {
      name: "accepts navigation to the page",
      knock: { method: "GET", origin: undefined, site: "none" },
      want: true,
    },
    {
      name: "accepts a browser that sends fewer headers",
      knock: { method: "GET", origin: undefined, site: undefined },
      want: true,
    },
    { name: "rejects a missing host", knock: { host: undefined }, want: false },
    { name: "rejects another port", knock: { host: "127.0.0.1:81" }, want: false },
    {
      name: "rejects the localhost page at 127.0.0.1",
      knock: { origin: "http://localhost:80" },
      want: false,
    },
    { name: "rejects a change without an origin", knock: { origin: undefined }, want: false },
    {
      name: "rejects a stream without an origin",
      knock: { method: "GET", origin: undefined },
      isStream: true,
      want: false,
    },
    { name: "rejects another site", knock: { site: "cross-site" }, want: false },
  ])("$name", ({ knock, isStream, want }) => {
    expect(findOriginProblem({ ...own, ...knock }, 80, isStream) === undefined).toBe(want);
  });
});

test("a token is valid for one browser, and only the newest token opens the panel", () => {
  const [browser, another] = ["a".repeat(32), "b".repeat(32)];
  let count = 0;
  const passes = new LinkTokens((size) => new Uint8Array(size).fill((count += 1)));
  const [first, second] = [passes.issue(), passes.issue()];
  expect(passes.exchange(first, browser)).toBeUndefined();
  expect(passes.exchange(second, "short")).toBeUndefined();
  const key = passes.exchange(second, browser) ?? "";
  expect(passes.isIssuedKey(key)).toBe(true);
  expect(passes.isIssuedKey(second)).toBe(false);
  expect(passes.isIssuedKey("")).toBe(false);
  expect(passes.exchange(second, another)).toBeUndefined();
  const third = passes.exchange(passes.issue(), browser) ?? "";
  expect(third).not.toBe(key);
  // After a lost response or a reload.
  expect(passes.exchange(second, browser)).toBe(key);
  expect(passes.isIssuedKey(key)).toBe(true);
  expect(passes.isIssuedKey(third)).toBe(true);
});

test("a key is sent as a subprotocol beside the panel's own", () => {
  expect(findOfferedKey("stream.panel.patchbay.io, key.abc")).toBe("abc");
  expect(findOfferedKey("stream.panel.patchbay.io")).toBeUndefined();
  expect(findOfferedKey(undefined)).toBeUndefined();
});
