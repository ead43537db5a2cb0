// SPDX-License-Identifier: Apache-2.0
// Listen addresses of the API server.
import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import { connect } from "node:tls";
import { expect, test } from "vitest";
import { startHarness, type Harness } from "./harness.ts";

async function answers(api: Harness, host: string): Promise<string> {
  const socket = connect({ host, port: api.server.port, rejectUnauthorized: false });
  let output = "";
  socket.on("data", (chunk: Buffer) => (output += chunk.toString()));
  socket.end("GET /readyz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
  await once(socket, "close");
  return output.split("\r\n")[0] ?? "";
}

test("listens only on its own address by default", async () => {
  const api = await startHarness();
  try {
    const socket = connectTcp({ host: "127.0.0.2", port: api.server.port });
    await expect(once(socket, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
  } finally {
    await api.close();
  }
});

test("serves a second address from the same server, and both close together", async () => {
  const api = await startHarness({ secondHost: "127.0.0.2" });
  try {
    expect(await answers(api, "127.0.0.1")).toBe("HTTP/1.1 200 OK");
    expect(await answers(api, "127.0.0.2")).toBe("HTTP/1.1 200 OK");
  } finally {
    await api.close();
  }
  const socket = connectTcp({ host: "127.0.0.2", port: api.server.port });
  await expect(once(socket, "connect")).rejects.toMatchObject({ code: "ECONNREFUSED" });
});

test("reports a second address that the machine does not have and leaves no listener", async () => {
  await expect(startHarness({ secondHost: "192.0.2.1" })).rejects.toMatchObject({
    code: "APISERVER_LISTEN_FAILED",
    details: { host: "192.0.2.1" },
  });
});
