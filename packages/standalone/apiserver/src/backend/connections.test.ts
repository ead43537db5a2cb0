// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { Connections, type Peer, describeFailure, isConnectFailure, toPem } from "./connections.ts";

const AT = { host: "10.0.0.1", port: 443 };
const PEER: Peer = { addresses: [AT], serverName: "webhook.default.svc", caPem: "CA" };

function agentOf(peer: Peer, connections: Connections) {
  const { agent } = connections.requestOptions(peer, AT);
  if (typeof agent !== "object") throw new Error("there is no agent");
  // An agent shows the options that it was made with.
  return agent as typeof agent & { readonly options: Readonly<Record<string, unknown>> };
}

describe("a request to a peer", () => {
  test("uses one of its addresses, and expects the peer's name", () => {
    expect(new Connections().requestOptions(PEER, AT)).toMatchObject({
      ...AT,
      servername: "webhook.default.svc",
    });
  });

  test.each(["10.0.0.1", "fd00::1"])("sends no SNI for an IP address: %s", (serverName) => {
    const options = new Connections().requestOptions({ ...PEER, serverName }, AT);
    expect(options).not.toHaveProperty("servername");
  });

  test.each<{ name: string; peer: Partial<Peer>; want: Readonly<Record<string, unknown>> }>([
    { name: "its authority", peer: {}, want: { ca: "CA", rejectUnauthorized: true } },
    { name: "any certificate", peer: { isInsecure: true }, want: { rejectUnauthorized: false } },
  ])("accepts $name", ({ peer, want }) => {
    expect(agentOf({ ...PEER, ...peer }, new Connections()).options).toMatchObject(want);
  });

  test("accepts the system CAs if the peer has no CA", () => {
    const { options } = agentOf({ ...PEER, caPem: "" }, new Connections());
    expect([options["ca"], options["rejectUnauthorized"]]).toEqual([undefined, true]);
  });

  test.each([
    {
      name: "the configured client certificate",
      own: { certPem: "C", keyPem: "K" },
      want: ["C", "K"],
    },
    { name: "none", own: undefined, want: [undefined, undefined] },
  ])("presents $name", ({ own, want }) => {
    const { options } = agentOf(PEER, new Connections(own));
    expect([options["cert"], options["key"]]).toEqual(want);
  });
});

describe("pooled connections", () => {
  const other = { host: "10.0.0.2", port: 443 };

  test("are separate for each address, server name, CA and verification mode", () => {
    const connections = new Connections();
    const agents = [
      connections.requestOptions(PEER, AT).agent,
      connections.requestOptions(PEER, other).agent,
      connections.requestOptions(PEER, { ...AT, port: 444 }).agent,
      connections.requestOptions({ ...PEER, serverName: "other" }, AT).agent,
      connections.requestOptions({ ...PEER, caPem: "OTHER" }, AT).agent,
      connections.requestOptions({ ...PEER, isInsecure: true }, AT).agent,
    ];
    expect(new Set(agents).size).toBe(agents.length);
    expect(connections.requestOptions({ ...PEER }, { ...AT }).agent).toBe(agents[0]);
  });

  test("are reused until close", () => {
    const connections = new Connections();
    const before = connections.requestOptions(PEER, AT).agent;
    connections.close();
    expect(connections.requestOptions(PEER, AT).agent).not.toBe(before);
  });
});

test("reads the CA bundle of a webhook from base64", () => {
  expect(toPem(Buffer.from("PEM ä").toString("base64"))).toBe("PEM ä");
});

const ADDRESS = { host: "::1", port: 9 };

test.each([
  { code: "ECONNREFUSED", want: "dial tcp [::1]:9: connect: connection refused" },
  { code: "EHOSTUNREACH", want: "dial tcp [::1]:9: connect: no route to host" },
  { code: "ENOTFOUND", want: "dial tcp: lookup ::1: no such host" },
  { code: "ECONNRESET", want: "EOF" },
  {
    code: "DEPTH_ZERO_SELF_SIGNED_CERT",
    want: "tls: failed to verify certificate: x509: certificate signed by unknown authority",
  },
  {
    code: "CERT_HAS_EXPIRED",
    want: "tls: failed to verify certificate: x509: certificate has expired or is not yet valid",
  },
  { code: "", want: "something else" },
])("$code", ({ code, want }) => {
  expect(describeFailure(Object.assign(new Error("something else"), { code }), ADDRESS)).toBe(want);
});

test("only failures to connect allow another address", () => {
  expect(isConnectFailure(Object.assign(new Error(""), { code: "ECONNREFUSED" }))).toBe(true);
  expect(isConnectFailure(Object.assign(new Error(""), { code: "ECONNRESET" }))).toBe(false);
});
