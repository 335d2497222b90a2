#!/usr/bin/env escript
%% Erlang: many processes on several scheduler threads, each collected on its own, with a table, a file and a child that the
%% runtime guards by its locks.
-mode(compile).

main(_) ->
    Table = ets:new(counters, [public, {write_concurrency, true}]),
    ets:insert(Table, {total, 0}),
    Parent = self(),
    Workers = [spawn_link(fun() -> work(Table, Number), Parent ! {done, self()} end) || Number <- lists:seq(0, 31)],
    [receive {done, Worker} -> ok end || Worker <- Workers],
    io:format("~s", [os:cmd("echo forked")]),
    {ok, _} = file:read_file(escript:script_name()),
    io:format("total ~p~ndone~n", [ets:lookup_element(Table, total, 2)]).

work(Table, Number) ->
    lists:foreach(
        fun(Round) ->
            Garbage = lists:duplicate(500, {Round, Number}),
            ets:update_counter(Table, total, length(Garbage) + Number),
            Round rem 50 =:= 0 andalso erlang:garbage_collect()
        end,
        lists:seq(1, 1000)).
