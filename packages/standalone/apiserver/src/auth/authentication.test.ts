// SPDX-License-Identifier: Apache-2.0
// Who is behind a connection or a token.
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { createFakeClock } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { openStore } from "../storage/sqlite-store.ts";
import { Authentication, TokenRejected } from "./authentication.ts";
import { AccountTokens, ISSUER } from "./tokens/account-tokens.ts";

const ADMIN = { name: "root", groups: ["system:masters", "system:authenticated"] };

function makeAuthentication() {
  const store = openStore(":memory:", (error) => {
    throw error;
  });
  const clock = createFakeClock();
  const tokens = new AccountTokens({ store, clock, keyPem: undefined });
  const entry = { token: "secret", user: "root", groups: ["system:masters"] };
  return { store, clock, tokens, authentication: new Authentication([entry], tokens) };
}

const { authentication, tokens, store, clock } = makeAuthentication();

function tlsSocket(subject: unknown, authorized = true) {
  const counts = { read: 0 };
  const socket = Object.create(TLSSocket.prototype, {
    authorized: { value: authorized },
    getPeerCertificate: {
      value: () => {
        counts.read += 1;
        return { subject };
      },
    },
  }) as TLSSocket;
  return { socket, counts };
}

function requestOf(authorization: string | undefined, socket: unknown = {}): IncomingMessage {
  return { headers: { authorization }, socket } as unknown as IncomingMessage;
}

describe("authentication of a request", () => {
  test.each([
    { name: "without credentials", header: undefined, want: "system:anonymous" },
    { name: "with another scheme", header: "Basic secret", want: "system:anonymous" },
    { name: "with a scheme and no token", header: "Bearer", want: "system:anonymous" },
    { name: "with an empty token", header: "Bearer  ", want: "system:anonymous" },
    { name: "with a token", header: "Bearer secret", want: "root" },
    { name: "with blanks around its token", header: "  BEARER secret ", want: "root" },
  ])("$name yields $want", async ({ header, want }) => {
    expect((await authentication.authenticate(requestOf(header))).name).toBe(want);
  });

  test("with a wrong token is rejected", async () => {
    const asked = authentication.authenticate(requestOf("Bearer wrong"));
    await expect(asked).rejects.toMatchObject({ code: 401 });
  });

  test.each([
    {
      name: "no certificate",
      subject: undefined,
      header: undefined,
      want: "system:anonymous",
      groups: ["system:unauthenticated"],
    },
    {
      name: "a certificate",
      subject: { CN: "node", O: "a" },
      header: undefined,
      want: "node",
      groups: ["a", "system:authenticated"],
    },
    {
      name: "a certificate and a token",
      subject: { CN: "node" },
      header: "Bearer secret",
      want: "node",
      groups: ["system:authenticated"],
    },
    {
      name: "a certificate with repeated fields",
      subject: { CN: ["first", "second"], O: ["a", "b"] },
      header: undefined,
      want: "first",
      groups: ["a", "b", "system:authenticated"],
    },
    {
      name: "a certificate without a name, but a token",
      subject: { O: "a" },
      header: "Bearer secret",
      want: "root",
      groups: ADMIN.groups,
    },
  ])("over TLS with $name yields $want", async ({ subject, header, want, groups }) => {
    const { socket } = tlsSocket(subject);
    expect(await authentication.authenticate(requestOf(header, socket))).toEqual({
      name: want,
      groups,
    });
  });

  test.each([
    { name: "an unknown CA", subject: { CN: "node" }, authorized: false },
    { name: "no name", subject: { O: "a" }, authorized: true },
  ])("rejects a certificate with $name", async ({ subject, authorized }) => {
    const { socket } = tlsSocket(subject, authorized);
    await expect(authentication.authenticate(requestOf(undefined, socket))).rejects.toMatchObject({
      code: 401,
    });
  });

  test("parses the certificate once per connection", async () => {
    const { socket, counts } = tlsSocket({ CN: "node" });
    await authentication.authenticate(requestOf(undefined, socket));
    await authentication.authenticate(requestOf(undefined, socket));
    expect(counts.read).toBe(1);
  });
});

describe("verification of a token", () => {
  const account = {
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name: "sa", namespace: "ns", uid: "u1" },
  };
  const issue = (audiences: readonly string[]) =>
    tokens.issue({ account, audiences, expiresInSeconds: 600, boundObject: undefined });

  test("of the static token list applies to the server only", async () => {
    expect(await authentication.authenticateToken("secret")).toEqual({
      user: ADMIN,
      audiences: [ISSUER],
    });
    expect(await authentication.authenticateToken("secret", ["x", ISSUER])).toEqual({
      user: ADMIN,
      audiences: [ISSUER],
    });
    const other = authentication.authenticateToken("secret", ["x"]);
    await expect(other).rejects.toEqual(new TokenRejected("invalid bearer token"));
  });

  test("of a service account works while the account exists", async () => {
    const token = await issue([ISSUER, "x"]);
    await expect(authentication.authenticateToken(token)).rejects.toEqual(
      new TokenRejected("[invalid bearer token, service account ns/sa has been deleted]"),
    );
    await store.write((transaction) => {
      transaction.put({ bucket: "/serviceaccounts", namespace: "ns", name: "sa" }, account);
    });
    expect(await authentication.authenticateToken(token, ["x", "y"])).toEqual({
      user: {
        name: "system:serviceaccount:ns:sa",
        uid: "u1",
        groups: ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
      },
      audiences: ["x"],
    });
    await expect(authentication.authenticateToken(token, ["y"])).rejects.toEqual(
      new TokenRejected(
        `[invalid bearer token, token audiences ["${ISSUER}" "x"] is invalid for the target audiences ["y"]]`,
      ),
    );
    await clock.advance(600_000);
    await expect(authentication.authenticate(requestOf(`Bearer ${token}`))).rejects.toMatchObject({
      code: 401,
    });
  });

  test("of a secret works while the secret contains the token", async () => {
    const token = await tokens.issueForSecret(account, "s");
    await expect(authentication.authenticateToken(token)).rejects.toEqual(
      new TokenRejected("[invalid bearer token, Token has been invalidated]"),
    );
    await store.write((transaction) => {
      transaction.put(
        { bucket: "/secrets", namespace: "ns", name: "s" },
        {
          apiVersion: "v1",
          kind: "Secret",
          metadata: { name: "s", namespace: "ns" },
          data: { token: Buffer.from(token).toString("base64") },
        },
      );
    });
    expect((await authentication.authenticateToken(token)).user.name).toBe(
      "system:serviceaccount:ns:sa",
    );
  });

  test.each(["a.b.c", "x", ""])("rejects %j", async (token) => {
    await expect(authentication.authenticateToken(token)).rejects.toEqual(
      new TokenRejected("invalid bearer token"),
    );
  });
});
