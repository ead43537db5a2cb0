// SPDX-License-Identifier: Apache-2.0
// One connection to libvirt. Its thread makes one call after the other, because with several calls in flight, libvirt
// 9.0 leaves some waiting forever when the daemon stops answering (ADR 0006).
#include "connection.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "domain.h"
#include "events.h"
#include "peer.h"

namespace {

// Keepalive: the connection is lost if the daemon is silent for 5 s x (3 + 1).
constexpr int kKeepaliveSeconds = 5;
constexpr unsigned int kKeepaliveCount = 3;

Napi::Array toJs(Napi::Env env, const std::vector<std::string> &texts) {
  Napi::Array list = Napi::Array::New(env, texts.size());
  for (uint32_t index = 0; index < texts.size(); index++) list.Set(index, texts[index]);
  return list;
}

Napi::Value toJs(Napi::Env env, const Value &value) {
  if (const auto *text = std::get_if<std::string>(&value)) return Napi::String::New(env, *text);
  if (const auto *facts = std::get_if<DomainFacts>(&value)) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", facts->name);
    object.Set("uuid", facts->uuid);
    object.Set("state", facts->state);
    object.Set("persistent", facts->persistent);
    object.Set("hasDiskError", facts->hasDiskError);
    object.Set("move", facts->move);
    return object;
  }
  if (const auto *interfaces = std::get_if<std::vector<GuestInterface>>(&value)) {
    Napi::Array list = Napi::Array::New(env, interfaces->size());
    for (uint32_t index = 0; index < interfaces->size(); index++) {
      Napi::Object object = Napi::Object::New(env);
      object.Set("name", (*interfaces)[index].name);
      object.Set("mac", (*interfaces)[index].mac);
      object.Set("addresses", toJs(env, (*interfaces)[index].addresses));
      list.Set(index, object);
    }
    return list;
  }
  if (const auto *guest = std::get_if<Facts>(&value)) {
    Napi::Object object = Napi::Object::New(env);
    for (const auto &[name, text] : *guest) object.Set(name, text);
    return object;
  }
  return env.Undefined();
}

Napi::Value toJs(Napi::Env env, const LibvirtError &failure) {
  Napi::Error error = Napi::Error::New(env, failure.message);
  error.Set("number", Napi::Number::New(env, failure.number));
  error.Set("domain", Napi::Number::New(env, failure.domain));
  error.Set("level", Napi::Number::New(env, failure.level));
  return error.Value();
}

// Settles a promise on JavaScript's thread. Called on the connection's thread.
void settle(Link &link, const Napi::Promise::Deferred &deferred, const CallResult &outcome) {
  link.post([deferred, outcome](Napi::Env env, Napi::Function) {
    if (outcome.error) {
      deferred.Reject(toJs(env, *outcome.error));
    } else {
      deferred.Resolve(toJs(env, outcome.value));
    }
  });
}

void work(Link &link, virConnectPtr connection) {
  while (const std::optional<Task> task = link.take()) task->finish(task->job(connection));
}

// Arguments of a connection's thread.
struct Thread {
  std::shared_ptr<Link> link;
  std::shared_ptr<OwnSocket> socket;
  std::string uri;
  Napi::Promise::Deferred opened;
};

CallResult failureOf(const std::string &message) {
  return {LibvirtError{VIR_ERR_INTERNAL_ERROR, VIR_FROM_RPC, VIR_ERR_ERROR, message}, {}};
}

// Opens the connection and runs tasks. SAFETY: `connection` belongs to this thread; callbacks hold only the link.
void run(const Thread &thread) {
  Registrations registrations;
  if (!thread.socket->begin()) {
    settle(*thread.link, thread.opened, failureOf("the connection is closed"));
    thread.link->failPendingTasks();
    return;
  }
  virConnectPtr connection = virConnectOpen(thread.uri.c_str());
  if (connection == nullptr) {
    settle(*thread.link, thread.opened, outcomeOf(-1));
  } else if (!thread.socket->find()) {
    settle(*thread.link, thread.opened, failureOf("the listening process was replaced"));
  } else if (!registrations.add(connection, thread.link)) {
    settle(*thread.link, thread.opened, outcomeOf(-1));
  } else {
    // Drivers without a daemon, which cannot hang, reject keepalive.
    virConnectSetKeepAlive(connection, kKeepaliveSeconds, kKeepaliveCount);
    settle(*thread.link, thread.opened, {});
    work(*thread.link, connection);
  }
  thread.link->failPendingTasks();
  if (connection == nullptr) return;
  // Disconnects the socket first, because a daemon may never answer a close request. It also cleans up when its stream ends.
  thread.socket->disconnect();
  registrations.remove(connection);
  virConnectClose(connection);
}

void start(Thread thread) {
  std::thread([thread = std::move(thread)]() mutable {
    run(thread);
    thread.socket.reset();
    thread.link->post([](Napi::Env env, Napi::Function notify) { notify.Call({Napi::String::New(env, "ended")}); });
  }).detach();
}

}  // namespace

Napi::Function Connection::define(Napi::Env env) {
  return DefineClass(env, "Connection",
                     {InstanceMethod<&Connection::call>("call"), InstanceMethod<&Connection::close>("close")});
}

Connection::Connection(const Napi::CallbackInfo &info) : Napi::ObjectWrap<Connection>(info) {
  const std::string uri = info[0].As<Napi::String>();
  const int socketFd = info[2].As<Napi::Number>();
  const pid_t listener = socketFd < 0 ? 0 : listenerOf(socketFd);
  // Fails here, because libvirt would block in connect, where its thread cannot be interrupted.
  if (listener < 0) throw Napi::Error::New(info.Env(), std::string("connect: ") + strerror(-listener));
  const auto socket = std::make_shared<OwnSocket>(listener);
  socket_ = socket;
  link_ = std::make_shared<Link>(info.Env(), info[1].As<Napi::Function>());
  const auto opened = Napi::Promise::Deferred::New(info.Env());
  info.This().As<Napi::Object>().Set("opened", opened.Promise());
  try {
    start({link_, socket, uri, opened});
  } catch (const std::system_error &error) {
    throw Napi::Error::New(info.Env(), std::string("no thread for a connection: ") + error.what());
  }
}

Connection::~Connection() {
  if (link_ != nullptr) link_->close();
}

Napi::Value Connection::call(const Napi::CallbackInfo &info) {
  if (link_ == nullptr) throw Napi::Error::New(info.Env(), "the connection is closed");
  std::vector<std::string> arguments;
  for (size_t index = 1; index < info.Length(); index++) {
    arguments.push_back(info[index].As<Napi::String>());
  }
  std::optional<Job> job = jobFor(info[0].As<Napi::String>(), arguments);
  if (!job) throw Napi::TypeError::New(info.Env(), "no such operation");
  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  const auto finish = [link = link_.get(), deferred](const CallResult &outcome) { settle(*link, deferred, outcome); };
  if (!link_->push({std::move(*job), finish})) throw Napi::Error::New(info.Env(), "the connection is closed");
  return deferred.Promise();
}

Napi::Value Connection::close(const Napi::CallbackInfo &info) {
  if (link_ != nullptr) link_->close();
  link_.reset();
  if (const std::shared_ptr<OwnSocket> socket = socket_.lock()) disconnectForGood(socket);
  return info.Env().Undefined();
}
